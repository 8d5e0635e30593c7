//! Every state that the protocol can come to within a scope, and proof that the properties notice faults.

mod explored;
mod mutants;
mod scopes;
