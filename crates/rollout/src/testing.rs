//! Fluent builders of fleets for tests here and in other crates.
