;; Fills 256 MiB in one instruction, which nothing can interrupt: the memory limit is its bound.
(module
  (memory (export "memory") 4096)
  (func (export "_start")
    (loop
      (memory.fill (i32.const 0) (i32.const 1) (i32.const 0x10000000))
      (br 0))))
