//! The map: which OpenShift release leads to which, under which risks, in which channels. Bytes in, values out: no client,
//! no clock, no files.
