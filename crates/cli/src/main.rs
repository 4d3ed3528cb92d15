//! The binary `paceline`.
mod bench;
use clap::Parser;
#[derive(Parser)]
struct A {
    #[command(flatten)]
    p: bench::policy::PolicyArgs,
}
fn main() {
    print!("{}", bench::policy::run(&A::parse().p).unwrap());
}
