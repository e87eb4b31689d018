package web_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/onsi/gomega"
)

// browsers are the names of Chromium, the first that there is counts.
var browsers = []string{"chromium", "chromium-browser", "google-chrome", "chrome", "headless-shell"}

// step is something that a user or a browser does.
type step = chromedp.Action[chromedp.Void]

// css finds an element.
type css = chromedp.CSS

// tab is a page in a real browser whose user is logged in.
type tab struct {
	*site
	*testing.T
	ctx context.Context //nolint:containedctx // a tab is in it

	mu sync.Mutex
	// complaints are what the browser wrote to its console: errors of the script, and
	// what the page's policy forbids.
	complaints []string
}

// browser is a real one. It is nil where the machine lacks one, and tests with it are
// then left out, with a word.
type browser struct {
	ctx context.Context //nolint:containedctx // a browser is in it
}

// newBrowser starts a browser, which ends with the test. See make browser.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	program := ""
	for _, name := range browsers {
		if path, err := exec.LookPath(name); err == nil && program == "" {
			program = path
		}
	}
	if program == "" {
		t.Log("Chromium is not on this machine: make browser says how it gets there")
		return nil
	}
	// It trusts the page's key, by the key alone.
	key := sha256.Sum256(certificate(t).Leaf.RawSubjectPublicKeyInfo)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program),
		chromedp.Flag("ignore-certificate-errors-spki-list", base64.StdEncoding.EncodeToString(key[:])),
		chromedp.UserDataDir(t.TempDir()),
	)
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium runs as root only so
	}
	ctx, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	return &browser{newContext(ctx, t)}
}

// newContext is a browser, or a tab of one, that is closed when the test ends.
func newContext(parent context.Context, t *testing.T, options ...chromedp.ContextOption) context.Context {
	t.Helper()
	ctx, stop := chromedp.NewContext(parent, options...)
	t.Cleanup(stop)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// with runs a test in a tab of its own, that shares nothing with others.
func (b *browser) with(t *testing.T, name string, test func(t *tab), steps ...step) {
	t.Helper()
	if b == nil {
		return
	}
	t.Run(name, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(b.ctx, 3*patience)
		t.Cleanup(cancel)
		page := &tab{site: newFleet(t), T: t, ctx: newContext(ctx, t, chromedp.WithNewBrowserContext())}
		if err := chromedp.Listen(page.ctx, page.listen); err != nil {
			t.Fatal(err)
		}
		page.run(append([]step{chromedp.EmulateViewport(1400, 900)}, steps...)...)
		page.logIn(viewer(t, "person"))
		test(page)
		if complaints := page.forgive(); complaints != "" {
			t.Errorf("the browser complains: %s", complaints)
		}
	})
}

func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		b.complaints = append(b.complaints, fmt.Sprintf("%s: %v", e.Type, e.Args))
	case *cdplog.EventEntryAdded:
		b.complaints = append(b.complaints, fmt.Sprintf("%s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL))
	}
}

// forgive returns what the browser complained about so far, and forgets it.
func (b *tab) forgive() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := strings.Join(b.complaints, "\n")
	b.complaints = nil
	return all
}

func (b *tab) run(steps ...step) {
	b.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.Fatal(err)
	}
}

// logIn fills the form that the first page leads to, and ends at the first page.
func (b *tab) logIn(token string) {
	b.Helper()
	b.run(
		chromedp.Navigate(b.url+"/"),
		chromedp.WaitVisible(css("#token")),
		chromedp.SendKeys(css("#token"), token+"\r"),
		chromedp.WaitVisible(css("#summary")),
	)
}

func (b *tab) visit(path string) {
	b.Helper()
	b.run(chromedp.Navigate(b.url+path), chromedp.WaitReady(css("#main")))
}

// eval is what an expression comes to in the page.
func eval[T any](b *tab, expression string) T {
	b.Helper()
	result, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.Fatal(err)
	}
	return result
}

// eventually waits until an expression comes to what is wanted.
func eventually[T any](b *tab, expression string, want T) {
	b.Helper()
	gomega.NewWithT(b.T).Eventually(func() T { return eval[T](b, expression) }).
		WithTimeout(patience).WithPolling(100*time.Millisecond).Should(gomega.Equal(want), "%s", expression)
}

// press presses a key.
func (b *tab) press(keys string) {
	b.Helper()
	b.run(chromedp.KeyEvent(keys))
}

// focused is the text of what has the focus.
func (b *tab) focused() string {
	b.Helper()
	return eval[string](b, `document.activeElement.id ? "#" + document.activeElement.id : document.activeElement.textContent.trim()`)
}

// withoutScript is a browser that runs no script of a page.
func withoutScript() step {
	return command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
}

// scheme is a browser whose user prefers light or dark.
func scheme(name string) step {
	return command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
}

func command[P, R any](c cdp.Command[P, R], params P) step {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}
