//! The update service on a real registry: releases as images, those of the sample and all real ones, scraped, served and
//! compared with the expected graphs, through a proxy that stumbles.

mod data;
mod lifecycle;
mod proxy;
mod scrape;
mod service;
