//! The benchmark: what `stokehold bench` measures and how.
//!
//! A *bed* is the database that is measured on, with all that the benchmark puts into it; a *fleet*
//! the nodes, each a process of its own; a *workload* what is to be run. One *repetition* runs a
//! workload on a bed and comes to figures: the times are those that the database itself wrote down,
//! the work is what the kernel and the server count. Whatever way it ends, nothing of it is left.

pub(crate) mod api;
pub(crate) mod bed;
pub(crate) mod child;
pub(crate) mod cpu;
pub(crate) mod door;
pub(crate) mod fleet;
pub(crate) mod handler;
pub(crate) mod load;
pub(crate) mod meter;
pub(crate) mod outcome;
pub(crate) mod percentiles;
pub(crate) mod plot;
pub(crate) mod proxy;
pub(crate) mod repetition;
pub(crate) mod report;
pub(crate) mod scenarios;
pub(crate) mod sustained;
pub(crate) mod wait;
pub(crate) mod workload;
