// Package chaos changes a running fleet at random and then compares it with the truth.
//
// A World is the truth: what the stores hold, what the class allows and what every
// Render wants. Each move changes the fleet and the World alike: documents are written,
// broken and removed, Renders made, changed, suspended and deleted, access is given and
// taken, targets are spoiled by hand, replicas of the hub and agents killed or drained,
// connections cut or silenced. Once the moves are over and everything runs, every target must equal render(spec, store), every status must
// say what is so, and nothing that nobody wants may be left.
//
// A run is told by its seed: the same seed makes the same moves. What is left to chance
// is how the fleet's own steps fall between them.
package chaos
