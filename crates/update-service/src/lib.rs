//! The library: reads releases and graph-data from where they are kept, makes snapshots of the update graph, and serves
//! them over the Cincinnati protocol.
