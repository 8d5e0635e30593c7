;; Reports its own lack of memory by leaving, as the runtimes of Go and Python do.
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (memory (export "memory") 1)
  (func (export "_start")
    (if (i32.eq (memory.grow (i32.const 4096)) (i32.const -1)) (then (call $proc_exit (i32.const 2))))))
