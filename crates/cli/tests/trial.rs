//! A model file that kills whoever loads it, loaded into a server that runs.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
};

/// A server whose models came after it had started.
struct Server {
    process: Child,
    _models: tempfile::TempDir,
    address: String,
}

impl Server {
    fn start(sets: &[&str]) -> Self {
        let models = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"]);
        command.arg("--model-repository").arg(models.path()).arg("--stop-with-stdin");
        for set in sets {
            command.args(["--set", set]);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let serving = lines.find_map(|line| line.ok().filter(|line| line.contains("serving")));
        // What it says later must go somewhere.
        std::thread::spawn(move || lines.for_each(drop));
        let serving = serving.expect("the server starts");
        let (_, from) = serving.split_once("http").unwrap();
        let from = &from[from.find("127.0.0.1:").unwrap()..];
        let end = from.find(|letter: char| !matches!(letter, '0'..='9' | '.' | ':'));
        write_models(models.path());
        let address = from[..end.unwrap_or(from.len())].to_owned();
        Self { process, _models: models, address }
    }

    /// The answer to a POST, if there is one.
    fn post(&self, path: &str, body: &str) -> Option<String> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer).filter(|answer| !answer.is_empty())
    }

    fn load(&self, model: &str) -> Option<String> {
        self.post(&format!("/v2/repository/models/{model}/load"), "")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// A field of a protocol buffer that holds bytes.
fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut length = content.len();
    while 0x80 <= length {
        field.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    field.push(u8::try_from(length).unwrap());
    field.extend(content);
    field
}

/// A field of a protocol buffer that holds a small number.
fn number(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

/// `x`, floats of any number of rows of one.
fn port(name: &str) -> Vec<u8> {
    let dims = [bytes(1, &bytes(2, b"n")), bytes(1, &number(1, 1))].concat();
    let tensor = [number(1, 1), bytes(2, &dims)].concat();
    [bytes(1, name.as_bytes()), bytes(2, &bytes(1, &tensor))].concat()
}

fn node(kind: &str, inputs: &[&str], output: &str) -> Vec<u8> {
    let mut node: Vec<u8> = inputs.iter().flat_map(|input| bytes(1, input.as_bytes())).collect();
    node.extend([bytes(2, output.as_bytes()), bytes(4, kind.as_bytes())].concat());
    bytes(1, &node)
}

/// An ONNX file of these nodes.
fn onnx(nodes: &[Vec<u8>]) -> Vec<u8> {
    // The shape of a tensor of eight gigabytes.
    let data = (1_i64 << 31).to_le_bytes();
    let huge = [number(1, 1), number(2, 7), bytes(8, b"huge"), bytes(9, &data)].concat();
    let ends = [bytes(2, b"g"), bytes(5, &huge), bytes(11, &port("x")), bytes(12, &port("y"))];
    let graph = [nodes.concat(), ends.concat()].concat();
    [number(1, 8), bytes(8, &number(2, 17)), bytes(7, &graph)].concat()
}

/// Puts a model that is fine and one that takes all memory into a folder.
fn write_models(folder: &Path) {
    let huge = [node("ConstantOfShape", &["huge"], "big"), node("Add", &["x", "big"], "y")];
    for (name, file) in [("fine", onnx(&[node("Neg", &["x"], "y")])), ("deadly", onnx(&huge))] {
        let version = folder.join(name).join("1");
        fs::create_dir_all(&version).unwrap();
        fs::write(version.join("model.onnx"), file).unwrap();
        fs::write(folder.join(name).join("model.toml"), "backend = \"onnx\"\n").unwrap();
    }
}

#[test]
fn a_model_that_kills_its_loader_is_refused_with_why_and_the_server_lives() {
    let server = Server::start(&["server.try_memory=2000000000"]);

    let refused = server.load("deadly").expect("the server lives");
    assert!(refused.starts_with("HTTP/1.1 400"), "{refused}");
    assert!(refused.contains("was tried") && refused.contains("signal 6"), "{refused}");

    let loaded = server.load("fine").unwrap();
    assert!(loaded.starts_with("HTTP/1.1 200"), "{loaded}");
    let answer = server.post("/v1/models/fine/infer", "[[2]]").unwrap();
    assert!(answer.contains("-2"), "{answer}");
}

#[test]
fn a_model_that_takes_too_long_is_refused_with_why() {
    let server = Server::start(&["server.try_timeout=1ms"]);

    let refused = server.load("fine").unwrap();

    assert!(refused.contains("it was tried for 1ms and was not ready"), "{refused}");
}
