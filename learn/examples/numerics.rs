//! Prints the numerics fingerprint of this machine; exits with 3 if it must be refused.

use std::process::ExitCode;

use resilin_learn::numerics;

fn main() -> ExitCode {
    if let Err(refusal) = numerics::check() {
        eprintln!("error: {refusal}");
        return ExitCode::from(3);
    }
    for byte in numerics::fingerprint() {
        print!("{byte:02x}");
    }
    println!();
    ExitCode::SUCCESS
}
