;; Sleeps for an hour in the host, where no epoch reaches it.
(module
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  ;; A subscription to the monotonic clock (id 1) in 3.6e12 ns.
  (func (export "_start")
    (i32.store (i32.const 16) (i32.const 1))
    (i64.store (i32.const 24) (i64.const 3600000000000))
    (drop (call $poll (i32.const 0) (i32.const 128) (i32.const 1) (i32.const 256)))))
