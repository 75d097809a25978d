//! The update service on a real registry: all real releases as images, scraped, served and compared with what
//! production serves, through a proxy that stumbles.

mod data;
mod lifecycle;
mod proxy;
mod scrape;
mod service;
