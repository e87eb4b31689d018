package syncserver_test

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/spoketest"
	"dynamic-config.rs/fleet/hub/internal/syncserver"
	"dynamic-config.rs/fleet/internal/identity"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// TestScripts plays the conversations in testdata. Each file starts with a hub and
// no session. What a spoke does:
//
//	open [as=a] [cluster=prod]    open a stream with the cluster's certificate
//	hello [version=V] [instance=I] say hello
//	page id=N [last]              send a page of the inventory, one Render a line
//	upsert, remove                send one Render
//	result nonce=N code=C         answer a delivery
//	unknown                       send a frame of a kind that no hub knows
//	close                         end the stream
//	recv                          show the next frame that is no heartbeat
//	end                           show how the stream ended
//
// What happens on the hub: serve (start over with bounds), answer and refuse (the
// latest word on a Render), suspend (end the session with that reason), drain. What
// is seen there: mirror, counts, ignored, registry. The argument as= names one of
// several agents, ignored=N says how many Renders of a frame the hub will ignore.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		p := &play{site: newSite(t, nil), spokes: map[string]*spoke{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			command, ok := commands[d.Cmd]
			if !ok {
				d.Fatalf(t, "no such command")
			}
			return strings.TrimRight(command(p, t, d), "\n") + "\n"
		})
	})
}

// play is a script under way.
type play struct {
	site     *site
	spokes   map[string]*spoke
	barriers int64 // frames of no kind that only the test sent
}

var commands = map[string]func(*play, *testing.T, *datadriven.TestData) string{
	"serve": (*play).serve, "open": (*play).open, "hello": (*play).hello, "page": (*play).page,
	"upsert": (*play).upsert, "remove": (*play).remove, "result": (*play).result, "unknown": (*play).unknown,
	"close": (*play).closeStream, "recv": (*play).recv, "end": (*play).end,
	"answer": (*play).answer, "refuse": (*play).refuse, "suspend": (*play).suspend, "drain": (*play).drain,
	"mirror": (*play).mirror, "counts": (*play).counts, "ignored": (*play).ignored, "registry": (*play).registry,
}

// arg is an argument's value or its default.
func arg(d *datadriven.TestData, key, fallback string) string {
	for _, a := range d.CmdArgs {
		if a.Key == key && len(a.Vals) > 0 {
			return a.Vals[0]
		}
	}
	return fallback
}

func number(t *testing.T, d *datadriven.TestData, key string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(arg(d, key, "0"), 10, 64)
	if err != nil {
		d.Fatalf(t, "%s: %v", key, err)
	}
	return n
}

func duration(t *testing.T, d *datadriven.TestData, key, fallback string) time.Duration {
	t.Helper()
	v, err := time.ParseDuration(arg(d, key, fallback))
	if err != nil {
		d.Fatalf(t, "%s: %v", key, err)
	}
	return v
}

func (p *play) agent(t *testing.T, d *datadriven.TestData) *spoke {
	t.Helper()
	a, ok := p.spokes[arg(d, "as", "a")]
	if !ok {
		d.Fatalf(t, "no such agent")
	}
	a.t = t
	return a
}

func (p *play) serve(t *testing.T, d *datadriven.TestData) string {
	p.site = newSite(t, func(c *syncserver.Config) {
		c.Heartbeat = duration(t, d, "heartbeat", "0s")
		c.MaxRenders = int(number(t, d, "max-renders"))
	})
	p.barriers = 0
	return "ok"
}

func (p *play) open(t *testing.T, d *datadriven.TestData) string {
	p.spokes[arg(d, "as", "a")] = p.site.open(t, arg(d, "cluster", "prod"), time.Hour)
	return "ok"
}

func (p *play) hello(t *testing.T, d *datadriven.TestData) string {
	if d.HasArg("ignored") {
		return p.say(t, d, helloFrame("v1.0.0", ""))
	}
	if err := p.agent(t, d).stream.Send(helloFrame(arg(d, "version", "v1.0.0"), arg(d, "instance", ""))); err != nil {
		return err.Error()
	}
	return "ok"
}

// say sends a frame and tells what came of it.
func (p *play) say(t *testing.T, d *datadriven.TestData, frame *fleetv1.SessionRequest) string {
	t.Helper()
	a := p.agent(t, d)
	if a.send(frame, number(t, d, "ignored")) {
		p.barriers++
		return "ok"
	}
	return "ended: " + showVerdict(a.verdict())
}

func (p *play) page(t *testing.T, d *datadriven.TestData) string {
	page := &fleetv1.InventoryPage{InventoryId: uint64(number(t, d, "id")), Last: d.HasArg("last")}
	for line := range strings.Lines(d.Input) {
		page.Renders = append(page.Renders, parseSpec(line))
	}
	return p.say(t, d, &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Inventory{Inventory: page}})
}

func (p *play) upsert(t *testing.T, d *datadriven.TestData) string {
	return p.say(t, d, &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Upsert{Upsert: parseSpec(d.Input)}})
}

func (p *play) remove(t *testing.T, d *datadriven.TestData) string {
	return p.say(t, d, &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Remove{Remove: parseSpec(d.Input).GetRef()}})
}

func (p *play) result(t *testing.T, d *datadriven.TestData) string {
	code := fleetv1.DeliveryResult_Code(fleetv1.DeliveryResult_Code_value["CODE_"+arg(d, "code", "")])
	return p.say(t, d, &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Result{Result: &fleetv1.DeliveryResult{
		Nonce: uint64(number(t, d, "nonce")), Ref: parseSpec(d.Input).GetRef(), Code: code,
	}}})
}

func (p *play) unknown(t *testing.T, d *datadriven.TestData) string {
	if p.agent(t, d).send(&fleetv1.SessionRequest{}, 1) {
		p.barriers++
	}
	return "ok"
}

func (p *play) closeStream(t *testing.T, d *datadriven.TestData) string {
	if err := p.agent(t, d).stream.CloseSend(); err != nil {
		return err.Error()
	}
	return "ok"
}

func (p *play) recv(t *testing.T, d *datadriven.TestData) string {
	return show(p.agent(t, d).next())
}

func (p *play) end(t *testing.T, d *datadriven.TestData) string {
	return showVerdict(p.agent(t, d).verdict())
}

func (p *play) answer(_ *testing.T, d *datadriven.TestData) string {
	spec, value := parseSpec(d.Input), arg(d, "content", "")
	p.site.fleet.Deliver(arg(d, "cluster", "prod"), idOf(spec), fleet.Answer{
		UID: spec.GetRef().GetUid(), Generation: spec.GetGeneration(), HandledSync: spec.GetSyncRequestedAt(),
		Content: &fleet.Content{ID: []byte(value), SourceVersion: "7", Data: map[string][]byte{"app.json": []byte(value)}},
	})
	return "ok"
}

func (p *play) refuse(_ *testing.T, d *datadriven.TestData) string {
	spec := parseSpec(d.Input)
	p.site.fleet.Deliver(arg(d, "cluster", "prod"), idOf(spec), fleet.Answer{
		UID: spec.GetRef().GetUid(), Generation: spec.GetGeneration(), HandledSync: spec.GetSyncRequestedAt(),
		Refusal: &fleet.Refusal{
			ReadyReason: v1alpha1.ReasonRenderFailed, CauseCondition: v1alpha1.ConditionFetched,
			CauseReason: v1alpha1.ReasonDocumentNotFound, Message: "fetch app.json: absent",
		},
	})
	return "ok"
}

func (p *play) suspend(_ *testing.T, d *datadriven.TestData) string {
	p.site.fleet.End(arg(d, "cluster", "prod"), &identity.Error{Reason: identity.ReasonSuspended, Message: "suspended"})
	return "ok"
}

func (p *play) drain(t *testing.T, d *datadriven.TestData) string {
	p.site.server.Drain(duration(t, d, "window", "1s"))
	return "ok"
}

func (p *play) mirror(*testing.T, *datadriven.TestData) string {
	if lines := p.site.mirror.lines(); len(lines) > 0 {
		return strings.Join(lines, "\n")
	}
	return "nothing"
}

func (p *play) counts(_ *testing.T, d *datadriven.TestData) string {
	c, known := p.site.fleet.Report(arg(d, "cluster", "prod"))
	if !known {
		return "unknown"
	}
	return fmt.Sprintf("total=%d ready=%d failed=%d", c.Total, c.Ready, c.Failed)
}

func (p *play) ignored(*testing.T, *datadriven.TestData) string {
	return strconv.FormatInt(p.site.server.Ignored()-p.barriers, 10)
}

func (p *play) registry(t *testing.T, d *datadriven.TestData) string {
	c := &v1alpha1.SpokeCluster{}
	if err := p.site.kube.Get(t.Context(), client.ObjectKey{Name: arg(d, "cluster", "prod")}, c); err != nil {
		d.Fatalf(t, "%v", err)
	}
	if c.Status.Session == nil {
		return "no session yet"
	}
	connected := apimeta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionConnected)
	line := fmt.Sprintf("epoch=%d hub=%s agent=%s connected=%s", c.Status.Session.Epoch, c.Status.Session.Hub, c.Status.Session.AgentVersion, connected.Status)
	if n := len(c.Status.Takeovers); n > 0 {
		line += fmt.Sprintf(" takeovers=%d", n)
	}
	return line
}

func verdictOf(err error) spoketest.Verdict {
	if errors.Is(err, io.EOF) {
		return spoketest.Verdict{}
	}
	return spoketest.VerdictOf(err)
}

func showVerdict(v spoketest.Verdict) string {
	return strings.TrimSpace(v.Code.String() + " " + v.Reason)
}
