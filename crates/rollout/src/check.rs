//! The independent checker: refuses a plan that breaks a safety rule. Written apart from the planner; it recomputes what
//! it needs from the input.
