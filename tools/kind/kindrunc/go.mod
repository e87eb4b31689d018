module dynamic-config.rs/fleet/tools/kind/kindrunc

go 1.26.0
