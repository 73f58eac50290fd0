use super::*;

fn anything(_: &str) -> Result<(), String> {
    Ok(())
}

#[test]
fn the_documented_defaults_are_the_built_in_ones() {
    for variable in VARIABLES {
        if let Effect::Overrides { key, ours, apply } = &variable.effect {
            let mut config = Config::default();
            let given = Given {
                strategy: &anything,
                environment: &Environment::default(),
            };
            apply(&mut config, ours, &given)
                .unwrap_or_else(|wrong| panic!("{}: {wrong:?}", variable.name));
            assert_eq!(
                config,
                Config::default(),
                "{} says {ours} is the default of {key}",
                variable.name
            );
        }
    }
}

#[test]
fn a_window_takes_its_size_and_its_unit_from_two_variables() {
    let window = |variables: &[(&str, &str)]| {
        let environment: Environment = variables
            .iter()
            .map(|(name, value)| {
                let name = format!("AIBRIX_ROUTER_VTC_TOKEN_TRACKER_{name}");
                (name.into(), (*value).into())
            })
            .collect();
        let mut config = Config::default();
        let problems = Problems::default();
        environment.override_file(&mut config, &anything, &problems);
        problems
            .into_result(config.routing.vtc.window.as_millis())
            .map_err(|errors| errors.to_string().lines().count())
    };
    assert_eq!(window(&[("WINDOW_SIZE", "2")]), Ok(120_000));
    assert_eq!(window(&[("TIME_UNIT", "seconds")]), Ok(5000));
    assert_eq!(
        window(&[("WINDOW_SIZE", "2"), ("TIME_UNIT", "milliseconds")]),
        Ok(2)
    );
    assert_eq!(window(&[("WINDOW_SIZE", "0")]), Err(1));
    assert!(window(&[("WINDOW_SIZE", "2"), ("TIME_UNIT", "hours")]).is_err());
}

#[test]
fn no_variable_is_listed_twice() {
    for (i, variable) in VARIABLES.iter().enumerate() {
        let same = VARIABLES[..i]
            .iter()
            .any(|other| other.name == variable.name);
        assert!(!same, "{}", variable.name);
    }
}

#[test]
fn names_in_braces_are_replaced() {
    let environment: Environment = [("A", "one"), ("B_2", ""), ("LOOP", "${A}")]
        .map(|(name, value)| (name.into(), value.into()))
        .into_iter()
        .collect();
    let check = |text: &str, want: &str| {
        assert_eq!(environment.replace(text).as_deref(), Ok(want), "{text}")
    };
    check("plain $5 {x}", "plain $5 {x}");
    check("${A}", "one");
    check("<${A}|${B_2}|${A}>", "<one||one>");
    check("$${A} and ${A}", "${A} and one");
    check("$$${A}", "$${A}");
    check("${LOOP}", "${A}");
    for text in ["${C}", "${}", "${A", "${A B}", "${A:-x}"] {
        assert!(environment.replace(text).is_err(), "{text} was taken");
    }
}

#[cfg(unix)]
#[test]
fn a_value_that_is_not_text_is_refused() {
    use std::os::unix::ffi::OsStringExt;
    let value = OsString::from_vec(vec![0xff]);
    let environment: Environment = [("A".into(), value.clone())].into_iter().collect();
    assert!(environment.replace("${A}").is_err());
    let name = OsString::from("AIBRIX_PREFIX_CACHE_BLOCK_SIZE");
    let environment: Environment = [(name, value)].into_iter().collect();
    let problems = Problems::default();
    environment.override_file(&mut Config::default(), &anything, &problems);
    assert!(problems.into_result(()).is_err());
}
