(module
  (func $price_per_item (param i32 i32) (result i32) (i32.div_s (local.get 0) (local.get 1)))
  (func (export "_start") (drop (call $price_per_item (i32.const 100) (i32.const 0)))))
