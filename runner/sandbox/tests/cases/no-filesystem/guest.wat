;; Asks for the first preopened directory and for a socket: there is none.
(module
  (import "wasi_snapshot_preview1" "fd_prestat_get" (func $prestat (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "sock_accept" (func $accept (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 64) "/etc/passwd")
  (func (export "_start")
    ;; 8 is "bad file descriptor".
    (if (i32.ne (call $prestat (i32.const 3) (i32.const 0)) (i32.const 8)) (then unreachable))
    (if (i32.ne
          (call $open (i32.const 3) (i32.const 0) (i32.const 64) (i32.const 11) (i32.const 0)
            (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 0))
          (i32.const 8)) (then unreachable))
    (if (i32.eqz (call $accept (i32.const 3) (i32.const 0) (i32.const 0))) (then unreachable))))
