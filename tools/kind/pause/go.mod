module dynamic-config.rs/fleet/tools/kind/pause

go 1.26.0
