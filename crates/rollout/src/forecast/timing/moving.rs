//! The times of the clusters that move.

use super::Timings;

impl Timings {
    /// Leaves out the clusters that do not move, by their index in the fleet. What nobody knows of a blocked cluster is no reason why
    /// the end of the others should be unknown.
    pub fn retain(&mut self, moves: impl Fn(usize) -> bool) {
        for (index, cluster) in self.clusters.iter_mut().enumerate() {
            if !moves(index) {
                cluster.steps = [None; 4];
                cluster.unknown = [false; 4];
            }
        }
    }
}
