package web

import (
	"cmp"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/fleet"
)

// PathView is the page of one Render: its way from the cluster through the hub and back.
type PathView struct {
	Cluster, ClusterLink, Namespace, Name string
	// Found says that the Render is known here; else Missing says where to look.
	Found   bool
	Missing string
	Finding
	Since Moment
	Steps []Step
}

// Step is one station of the way.
type Step struct {
	// ID names the step in the page.
	ID, Title string
	Word      Word
	Tone      Tone
	Facts     []Fact
}

// Fact is a line about a step.
type Fact struct {
	Name, Value string
	Moment      Moment
}

// viewPath makes the page of one Render; render and status are nil where it is not known.
func viewPath(s *State, cluster string, id fleet.ID, render *v1alpha1.DynamicConfigRender, status *fleet.RenderStatus) PathView {
	view := PathView{Cluster: plain(cluster), ClusterLink: link("/renders", map[string][]string{"cluster": {cluster}}, 1), Namespace: plain(id.Namespace), Name: plain(id.Name)}
	if render == nil || status == nil {
		view.Missing = "The cluster has no Render of this name."
		if _, here := s.Sessions[cluster]; !here {
			view.Missing = missing(s, cluster)
		}
		return view
	}
	view.Found, view.Finding, view.Since = true, stateOf(status), ago(status.Since, s.Now)
	view.Steps = []Step{
		renderStep(render),
		classStep(s, status.Class, &view.Finding),
		storeStep(s, render, status),
		deliveryStep(s, cluster, status),
		targetStep(render),
	}
	blame(view.Steps, &view.Finding)
	return view
}

// blame marks the step that a Render has not got past, and those that it did not reach.
func blame(steps []Step, f *Finding) {
	at := stationOf(f)
	for i := range steps {
		switch {
		case i < at:
			steps[i].Word, steps[i].Tone = cmp.Or(steps[i].Word, "passed"), cmp.Or(steps[i].Tone, good)
		case i == at:
			steps[i].Word, steps[i].Tone = f.Word, f.Tone
		default:
			steps[i].Word, steps[i].Tone = "not reached", off
		}
	}
}

// The stations of a Render's way.
const (
	atRender = iota
	atClass
	atStore
	atDelivery
	atTarget
)

// stationOf is where a Render is: at its target, or at what keeps it.
func stationOf(f *Finding) int {
	switch {
	case f.Tone == off:
		return atRender
	case f.Tone == wait && f.Condition == v1alpha1.ConditionApplied:
		return atDelivery
	case f.Reason == v1alpha1.ReasonClassNotFound, f.Reason == v1alpha1.ReasonClassNotAllowed:
		return atClass
	case f.Condition == v1alpha1.ConditionFetched:
		return atStore
	}
	return atTarget
}

func renderStep(r *v1alpha1.DynamicConfigRender) Step {
	return Step{ID: "step-render", Title: "Render", Facts: facts(
		fact("key", r.Spec.Key), fact("section", r.Spec.Section), fact("format", string(r.Spec.Format)),
	)}
}

func classStep(s *State, id string, f *Finding) Step {
	step := Step{ID: "step-class", Title: "Class", Facts: facts(fact("class", id))}
	class, ok := s.Classes[id]
	if !ok {
		return step
	}
	state, since := conditionsOf(class.Conditions, "ready", "not ready")
	step.Facts = append(step.Facts, facts(
		fact("state", string(state.Word)+", "+state.Reason), Fact{Name: "since", Moment: ago(since, s.Now)},
		fact("message", messageUnless(state.Tone == good || state.Message == f.Message, state.Message)),
	)...)
	if state.Tone == bad {
		step.Word, step.Tone = state.Word, bad
	}
	return step
}

func messageUnless(known bool, message string) string {
	if known {
		return ""
	}
	return message
}

func storeStep(s *State, r *v1alpha1.DynamicConfigRender, status *fleet.RenderStatus) Step {
	class := s.Classes[status.Class]
	return Step{ID: "step-store", Title: "Store", Facts: facts(
		fact("store", string(class.Source)), fact("key", r.Spec.Key), fact("version delivered last", status.Version),
	)}
}

func deliveryStep(s *State, cluster string, status *fleet.RenderStatus) Step {
	session := s.Sessions[cluster]
	step := Step{ID: "step-delivery", Title: "Delivery", Facts: facts(
		fact("replica", s.Replica), fact("cluster", cluster),
		Fact{Name: "sent and not answered", Moment: ago(status.Sent, s.Now)},
		Fact{Name: "cluster last applied anything", Moment: ago(session.Applied, s.Now)},
	)}
	if !status.Sent.IsZero() {
		step.Word, step.Tone = "under way", wait
	}
	return step
}

func targetStep(r *v1alpha1.DynamicConfigRender) Step {
	target := &r.Spec.Target
	return Step{ID: "step-target", Title: "Target", Facts: facts(
		fact("object", target.Kind()+" "+r.Namespace+"/"+target.Name()), fact("shape", string(target.EffectiveShape())), fact("file", target.File),
	)}
}

func fact(name, value string) Fact { return Fact{Name: name, Value: plain(value)} }

// facts leaves out those that say nothing.
func facts(all ...Fact) []Fact {
	var said []Fact
	for _, f := range all {
		if f.Value != "" || f.Moment.ISO != "" {
			said = append(said, f)
		}
	}
	return said
}
