//! The program `corral`: reads the environment once and puts the parts together.

mod start;

fn main() -> std::process::ExitCode {
    start::main()
}
