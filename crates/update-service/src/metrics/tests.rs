use super::*;

#[test]
fn the_names_that_dashboards_use_are_there_from_the_start() {
    let metrics = Metrics::new();
    metrics.published(3, SystemTime::now());
    metrics.path("/api/upgrades_info/v1/graph", true).requested();
    metrics.refused(400, "missing_params", false);
    metrics.refused(503, "failed_upstream_fetch", true);
    let text = metrics.classic().unwrap();
    for name in [
        "cincinnati_gb_graph_final_releases 3",
        "cincinnati_gb_graph_last_successful_refresh_timestamp 0",
        "cincinnati_gb_graph_upstream_errors_total 0",
        "cincinnati_gb_graph_upstream_scrapes_total 0",
        "cincinnati_gb_graph_initial_upstream_scrape_duration 0",
        "cincinnati_gb_graph_upstream_scrapes_duration_bucket{le=\"30.0\"} 0",
        "cincinnati_gb_graph_incoming_requests_total{uri_path=\"/api/upgrades_info/v1/graph\"} 1",
        "cincinnati_gb_graph_response_errors_total{code=\"503\",kind=\"failed_upstream_fetch\"} 1",
        "cincinnati_gb_graph_upstream_raw_releases 0",
        "cincinnati_gb_build_info{git_commit=",
        "cincinnati_pe_graph_incoming_requests_total{uri_path=\"/api/upgrades_info/v1/graph\"} 1",
        "cincinnati_pe_graph_serve_duration_seconds_bucket{le=\"0.005\"} 0",
        "cincinnati_pe_graph_response_errors_total{code=\"400\",kind=\"missing_params\"} 1",
        "cincinnati_pe_http_upstream_requests_total 0",
        "cincinnati_pe_http_upstream_errors_total 0",
        "cincinnati_pe_build_info{git_commit=",
        "update_service_lost_releases_total{reason=\"unlisted\"} 0",
        "update_service_source_failed{source=\"graph_data\"} 0",
        "update_service_snapshot_age_seconds 0",
        "process_resident_memory_bytes ",
    ] {
        assert!(text.contains(name), "{name} is missing in\n{text}");
    }
    assert!(
        text.contains("# TYPE cincinnati_gb_graph_upstream_scrapes_total counter"),
        "{text}"
    );
    assert!(metrics.openmetrics().unwrap().ends_with("# EOF\n"));
}

#[test]
fn a_failed_reading_shows_until_the_next_good_one() {
    let metrics = Metrics::new();
    let took = Duration::from_secs(2);
    metrics.source_read(Source::Releases, true, took, false);
    let text = metrics.classic().unwrap();
    assert!(
        text.contains("update_service_source_failed{source=\"releases\"} 1"),
        "{text}"
    );
    assert!(
        text.contains("cincinnati_pe_http_upstream_errors_total 1"),
        "{text}"
    );
    metrics.source_read(Source::Releases, true, took, true);
    let text = metrics.classic().unwrap();
    assert!(
        text.contains("update_service_source_failed{source=\"releases\"} 0"),
        "{text}"
    );
    assert!(
        text.contains("cincinnati_gb_graph_initial_upstream_scrape_duration 2"),
        "{text}"
    );
}
