(module (func (export "_start") (param i32)))
