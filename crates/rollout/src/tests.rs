//! Tests of the planner: by rule, by sequence, by property.

mod properties;
