//! Nothing to build here: the tests are in `e2e/` and `tidy/`.
