(module
  (type $f (func))
  (func (export "_start") (call_ref $f (ref.null $f))))
