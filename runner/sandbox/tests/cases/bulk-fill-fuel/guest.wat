;; The same is paid for by the byte before it runs.
(module
  (memory (export "memory") 64)
  (func (export "_start") (memory.fill (i32.const 0) (i32.const 1) (i32.const 4000000))))
