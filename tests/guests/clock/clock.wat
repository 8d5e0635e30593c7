;; A command that answers with the time of its first instruction: eight bytes, the nanoseconds since
;; 1970, lowest byte first. For measuring how long a job waited until its handler began.
(module
  (import "wasi_snapshot_preview1" "clock_time_get"
    (func $clock_time_get (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write"
    (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_start")
    ;; The clock of the day, to the nanosecond.
    (drop (call $clock_time_get (i32.const 0) (i64.const 1) (i32.const 16)))
    ;; One piece of eight bytes, to stdout.
    (i32.store (i32.const 0) (i32.const 16))
    (i32.store (i32.const 4) (i32.const 8))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))
