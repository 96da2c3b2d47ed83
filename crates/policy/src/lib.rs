//! Rule files: grammar, faults with their place, and the matcher
