module dynamic-config.rs/fleet/tools/kind/guard

go 1.26.0
