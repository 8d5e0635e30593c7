(module
  (import "wasi_snapshot_preview1" "fd_write" (func (param i64)))
  (func (export "_start")))
