(module
  (func (export "_start")
    (drop (i8x16.relaxed_swizzle (v128.const i32x4 0 0 0 0) (v128.const i32x4 0 0 0 0)))))
