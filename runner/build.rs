//! Turns the text of the benchmark's own handlers into modules, so that the binary carries them.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = std::env::var("OUT_DIR")?;
    for name in ["noop", "noop-command"] {
        let text = format!("../tests/guests/noop/{name}.wat");
        println!("cargo:rerun-if-changed={text}");
        std::fs::write(Path::new(&out).join(format!("{name}.wasm")), wat::parse_file(&text)?)?;
    }
    Ok(())
}
