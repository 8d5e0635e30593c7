//! Migrations are compiled in: build again when one is added or changed.

fn main() {
    println!("cargo:rerun-if-changed=../../migrations");
}
