//! Factories by mode name.

use sandbox::{
    Factory, FactoryError, Registry, RegistryError, Request, Sandbox, direct, global_registry,
    lookup_factory, register_factory, replace_factory,
};
use serde_json::{Map, json};
use std::{sync::Arc, thread};

#[tokio::test]
async fn direct_is_known_from_the_start_and_takes_no_keys() {
    let factory = lookup_factory("direct").unwrap();
    let sandbox = factory.build("hooks", &Map::new()).unwrap();
    assert_eq!(sandbox.name(), "hooks");
    assert!(sandbox.spawn(Request::new("true")).await.outcome.success());

    let config = Map::from_iter([("image".to_owned(), json!("x"))]);
    let Err(error) = factory.build("hooks", &config) else { panic!("an unknown key was taken") };
    assert_eq!(error.to_string(), "unknown key \"image\"; known: none");
}

#[test]
fn names_are_checked() {
    let registry = Registry::with_shipped_modes();
    assert_eq!(registry.register("", direct::factory()), Err(RegistryError::EmptyMode));
    assert_eq!(registry.replace("", direct::factory()), Err(RegistryError::EmptyMode));
    assert_eq!(
        registry.register("direct", direct::factory()),
        Err(RegistryError::Duplicate("direct".into()))
    );
    registry.register("another", direct::factory()).unwrap();
    let Err(error) = registry.lookup("dirct") else { panic!("found a mode that is not there") };
    let known = registry.modes().join(", ");
    assert_eq!(error.to_string(), format!("unknown sandbox mode \"dirct\"; known: {known}"));
    assert!(known.starts_with("another, direct"));
}

fn failing(mark: usize) -> Arc<dyn Factory> {
    Arc::new(move |_: &str, _: &Map<_, _>| -> Result<Arc<dyn Sandbox>, FactoryError> {
        Err(FactoryError::Unavailable(mark.to_string()))
    })
}

#[test]
fn many_threads_register_replace_and_look_up() {
    const THREADS: usize = 16;
    const MODES: usize = 200;
    let won: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    let mut won = 0;
                    for mode in 0..MODES {
                        let shared = format!("hammer-{mode}");
                        won += usize::from(register_factory(&shared, failing(thread)).is_ok());
                        assert!(lookup_factory(&shared).is_ok(), "registered by somebody by now");
                        replace_factory(&format!("own-{thread}"), failing(mode)).unwrap();
                        let Err(error) =
                            lookup_factory(&format!("own-{thread}")).unwrap().build("x", &Map::new())
                        else {
                            panic!("built")
                        };
                        assert_eq!(
                            error,
                            FactoryError::Unavailable(mode.to_string()),
                            "own replacement is seen"
                        );
                    }
                    won
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert_eq!(won, MODES, "each mode was registered exactly once");
    assert!(global_registry().modes().len() > MODES + THREADS);
}
