(module
  (type $point (struct (field i32) (field i32)))
  (func (export "_start") (drop (struct.new_default $point))))
