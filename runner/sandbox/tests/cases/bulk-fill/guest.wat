;; Fills 128 MiB in one instruction, which nothing can interrupt: the memory limit is its bound.
(module
  (memory (export "memory") 2048)
  (func (export "_start")
    (loop
      (memory.fill (i32.const 0) (i32.const 1) (i32.const 0x8000000))
      (br 0))))
