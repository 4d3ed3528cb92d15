//! The gRPC messages are those that existing clients speak, and the checked-in code is theirs.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../proto/generate.rs"]
mod generate;

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path};

use prost_reflect::{DescriptorPool, EnumDescriptor, Kind, MessageDescriptor};

/// Everything in the descriptors, one line each, as `proto/list-fields.py` lists a client's.
fn lines(pool: &DescriptorPool) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    pool.all_messages().for_each(|message| add_message(&mut lines, &message));
    pool.all_enums().for_each(|entry| add_enum(&mut lines, &entry));
    for service in pool.services() {
        for call in service.methods() {
            let stream = |on| if on { " stream" } else { "" };
            lines.insert(format!(
                ".{}/{}{} .{} ->{} .{}",
                service.full_name(),
                call.name(),
                stream(call.is_client_streaming()),
                call.input().full_name(),
                stream(call.is_server_streaming()),
                call.output().full_name(),
            ));
        }
    }
    lines
}

fn add_message(lines: &mut BTreeSet<String>, message: &MessageDescriptor) {
    for field in message.fields() {
        let kind = match field.kind() {
            Kind::Message(message) => format!(".{}", message.full_name()),
            Kind::Enum(entry) => format!(".{}", entry.full_name()),
            scalar => format!("{scalar:?}").to_lowercase(),
        };
        let label = if field.is_list() || field.is_map() { "repeated " } else { "" };
        let mut line = format!(".{} = {} {label}{kind}", field.full_name(), field.number());
        if let Some(oneof) = field.containing_oneof() {
            write!(line, " in {}", oneof.name()).expect("writing to memory does not fail");
        }
        lines.insert(line);
    }
}

fn add_enum(lines: &mut BTreeSet<String>, entry: &EnumDescriptor) {
    for value in entry.values() {
        lines.insert(format!(".{}.{} = {} value", entry.full_name(), value.name(), value.number()));
    }
}

#[test]
fn every_field_has_the_number_and_type_that_clients_give_it() {
    let bytes = fs::read(root().join("src/oip/generated/inference.bin")).unwrap();
    let ours = lines(&DescriptorPool::decode(&*bytes).unwrap());
    let theirs = fs::read_to_string(root().join("proto/fields.txt")).unwrap();
    let theirs: BTreeSet<String> = theirs.lines().map(str::to_owned).collect();

    let extra: Vec<_> = ours.difference(&theirs).collect();
    let missing: Vec<_> = theirs.difference(&ours).collect();
    assert!(extra.is_empty() && missing.is_empty(), "extra {extra:#?}, missing {missing:#?}");
    assert!(ours.len() > 300, "{} lines", ours.len());
}

#[test]
fn the_checked_in_code_is_what_the_proto_files_generate() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("generated");
    for (_, _, folder) in generate::PACKAGES {
        fs::create_dir_all(out.join(folder)).unwrap();
    }
    generate::generate(&root().join("proto"), &out).unwrap();

    for (package, _, folder) in generate::PACKAGES {
        for file in generate::files(package) {
            let fresh = fs::read(out.join(folder).join(&file)).unwrap();
            let kept = fs::read(root().join("src").join(folder).join(&file)).unwrap();
            assert!(
                fresh == kept,
                "{file} is stale; run `cargo run -p paceline-api --example generate-proto`"
            );
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
