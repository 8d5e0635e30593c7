;; Asks for 4 GiB at once.
(module
  (memory (export "memory") 1)
  (func (export "_start")
    (if (i32.eq (memory.grow (i32.const -1)) (i32.const -1)) (then unreachable))))
