;; Grows by 1 MiB until it is told no, then gives up as an allocator does.
(module
  (memory (export "memory") 1)
  (func $allocate
    (loop $more
      (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
    unreachable)
  (func (export "_start") (call $allocate)))
