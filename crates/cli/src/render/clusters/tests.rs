use super::*;
use crate::render::fixtures::{now, rows};

#[test]
fn clusters_are_listed_by_name() {
    let rows = rows();
    insta::assert_snapshot!(render(&rows.in_phases(&[]), None, now(), Paint::Never));
}

#[test]
fn rows_that_follow_stay_in_their_columns() {
    let (rows, mut widths) = (rows(), Vec::new());
    let all = render_more(&rows.in_phases(&[]), None, now(), Paint::Never, &mut widths);
    let one = render_more(
        &rows.in_phases(&[Phase::Failed]),
        None,
        now(),
        Paint::Never,
        &mut widths,
    );
    let line = one.lines().last().unwrap();
    assert!(all.lines().any(|known| known == line), "{line}");
}

#[test]
fn wide_adds_canary_step_times_and_message() {
    let rows = rows();
    insta::assert_snapshot!(render(
        &rows.in_phases(&[]),
        Some(Output::Wide),
        now(),
        Paint::Never
    ));
}

#[test]
fn only_a_step_that_goes_on_has_a_plus() {
    let mut row = rows().of("edge-02").unwrap().clone();
    assert!(steps(&row, now()).ends_with('+'));
    for phase in [Phase::Failed, Phase::Skipped, Phase::Aborted] {
        row.phase = phase;
        assert_eq!(steps(&row, now()), "Platform=4m48s");
    }
}

#[test]
fn machines_get_a_list_of_rows() {
    let rows = rows();
    let failed = rows.in_phases(&[Phase::Failed]);
    insta::assert_snapshot!(render(&failed, Some(Output::Json), now(), Paint::Never));
    let yaml: Value =
        serde_saphyr::from_str(&render(&failed, Some(Output::Yaml), now(), Paint::Never)).unwrap();
    assert_eq!(yaml["items"][0]["cluster"], "edge-17");
    assert_eq!(
        render(&failed, Some(Output::Name), now(), Paint::Never),
        "edge-17\n"
    );
}

#[test]
fn nothing_found_names_the_phases_asked_for() {
    assert_eq!(
        none_found("spring", "upgrades", &[Phase::Failed, Phase::Blocked], false),
        "No clusters of upgrade spring in upgrades namespace are in phase Failed or Blocked.\n"
    );
}
