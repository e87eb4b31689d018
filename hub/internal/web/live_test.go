package web_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/onsi/gomega"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/fleet"
)

// A page changes in place: no reload, and who has the focus keeps it.
func TestBrowser_LiveUpdates(t *testing.T) {
	browser := newBrowser(t)
	browser.with(t, "a change arrives without a reload and leaves the focus", func(b *tab) {
		b.visit("/renders")
		b.run(chromedp.Focus(css(`tr[id="render/prod-eu/shop/payments"] a`)))
		eval[int](b, `window.loadedOnce = 1`)
		b.deliver("prod-eu", "billing/api", fleet.Applied, "")
		b.deliver("prod-eu", "shop/orders", fleet.Applied, "")
		eventually(b, `document.getElementById("render/prod-eu/shop/orders") === null`, true)
		eventually(b, `document.getElementById("summary").textContent.includes("4 ready, 2 failed")`, true)
		if got := b.focused(); got != "shop/payments" || eval[int](b, `window.loadedOnce`) != 1 {
			b.Errorf("the focus is at %q", got)
		}
		// What is in focus goes: the keyboard goes on from the content, not from the top.
		b.deliver("prod-eu", "shop/payments", fleet.Applied, "")
		eventually(b, `document.activeElement.id`, "main")

		b.refuse("prod-eu", "shop/web", fleet.Refusal{ReadyReason: v1alpha1.ReasonClassNotFound, Message: "the hub has no such class"})
		eventually(b, `document.getElementById("render/prod-eu/shop/web") !== null`, true)
	})
	browser.with(t, "what a person types stays", func(b *tab) {
		b.visit("/")
		b.run(chromedp.SendKeys(css("#name"), "edge"))
		before := eval[string](b, `document.querySelector(".read time").dateTime`)
		eventually(b, `document.querySelector(".read time").dateTime !== "`+before+`"`, true)
		if got := eval[string](b, `document.getElementById("name").value`); got != "edge" || b.focused() != "#name" {
			b.Errorf("%q, focus at %q", got, b.focused())
		}
	})
	browser.with(t, "updates can be paused", func(b *tab) {
		b.visit("/renders")
		b.run(chromedp.Click(css("#live-button")))
		eventually(b, `document.getElementById("live-state").textContent`, "Updates are paused.")
		b.deliver("prod-eu", "billing/api", fleet.Applied, "")
		b.run(chromedp.Click(css("#live-button")))
		eventually(b, `document.getElementById("render/prod-eu/billing/api") === null`, true)
		eventually(b, `document.getElementById("live-button").textContent`, "Pause updates")
	})
	browser.with(t, "a login that is over leads to the form, and back", func(b *tab) {
		b.visit("/renders?cluster=prod-eu")
		b.clock.move(sessionLife)
		b.run(chromedp.WaitVisible(css("#token")))
		b.run(chromedp.SendKeys(css("#token"), viewer(b.T, "person")+"\r"), chromedp.WaitVisible(css("#summary")))
		if got := eval[string](b, `location.pathname + location.search`); got != "/renders?cluster=prod-eu" {
			b.Errorf("back at %s", got)
		}
	})
	browser.with(t, "a hub that is gone is said to be", func(b *tab) {
		b.visit("/")
		b.stop()
		eventually(b, `document.getElementById("live-state").textContent`, "Not up to date: the hub does not answer. It is asked again every few seconds.")
		if !strings.Contains(b.forgive(), "Failed to load resource") {
			b.Error("the browser did not miss it")
		}
	})
}

// All that the page says, it says to a browser that runs no script.
func TestBrowser_WithoutScript(t *testing.T) {
	browser := newBrowser(t)
	browser.with(t, "every page can be reached and read", func(b *tab) {
		if hidden := eval[bool](b, `document.getElementById("live").hidden`); !hidden {
			b.Error("updates are offered, which do not come")
		}
		b.run(
			chromedp.Click(css(`nav a[href="/renders"]`)), chromedp.WaitVisible(css("#owner-the-platform-team")),
			chromedp.Click(css(`tr[id="render/prod-eu/shop/payments"] a`)), chromedp.WaitVisible(css("#step-store")),
			chromedp.Click(css(`main p a`)), chromedp.WaitVisible(css("#cluster")),
			chromedp.SetValue(css("#cluster"), "prod-us"), chromedp.Submit(css("#cluster")), chromedp.WaitVisible(css(`tr[id="render/prod-us/shop/cart"]`)),
			chromedp.Click(css(`.who button`)), chromedp.WaitVisible(css("#token")),
		)
	}, withoutScript())
}

func TestBrowser_Keyboard(t *testing.T) {
	browser := newBrowser(t)
	browser.with(t, "the first key leads past the head of the page", func(b *tab) {
		b.visit("/")
		b.press(kb.Tab)
		if got := b.focused(); got != "Skip to the content" {
			b.Errorf("the first is %q", got)
		}
		b.press(kb.Enter)
		eventually(b, `document.activeElement.id`, "main")
		b.press(kb.Tab)
		if got := b.focused(); got != "#name" {
			b.Errorf("after the content's beginning comes %q", got)
		}
	})
	browser.with(t, "everything is reached in order and seen when it is", func(b *tab) {
		b.visit("/")
		var order []string
		for range 30 {
			b.press(kb.Tab)
			at := b.focused()
			if slices.Contains(order, at) {
				break
			}
			order = append(order, at)
			if width := eval[string](b, `getComputedStyle(document.activeElement).outlineWidth`); width != "3px" {
				b.Errorf("%q in focus has an outline of %s", at, width)
			}
		}
		want := []string{
			"Skip to the content", "Clusters", "Renders", "#live-button", "Log out", "#name", "Show", "#clusters", "edge-07", "prod-eu", "prod-us", "prod-ap", "staging", "Start over",
		}
		for i, one := range want {
			if i >= len(order) || order[i] != one {
				b.Fatalf("got %q, want %q", order, want)
			}
		}
		b.run(chromedp.Focus(css(`tr[id="cluster/prod-eu"] a`)))
		b.press(kb.Enter)
		b.run(chromedp.WaitVisible(css(`tr[id="render/prod-eu/shop/web"]`)))
	})
}

// The policy that goes with each page keeps what was slipped into it from acting.
func TestBrowser_Policy(t *testing.T) {
	browser := newBrowser(t)
	browser.with(t, "a script and a style in the page do nothing", func(b *tab) {
		b.visit("/")
		eval[bool](b, `(() => {
			const script = document.createElement("script");
			script.textContent = "window.slipped = true";
			document.body.append(script);
			const style = document.createElement("style");
			style.textContent = "body { background: red }";
			document.head.append(style);
			return true;
		})()`)
		if eval[bool](b, `window.slipped === true || getComputedStyle(document.body).backgroundColor === "rgb(255, 0, 0)"`) {
			b.Error("it acted")
		}
		if complaints := b.forgive(); strings.Count(complaints, "Content Security Policy") < 2 {
			b.Errorf("the browser says only: %s", complaints)
		}
	})
}

// contrasts are the texts of a page that stand out too little: less than 4.5 to 1.
const contrasts = `(() => {
	const parse = (c) => c.match(/[\d.]+/g).map(Number);
	const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const behind = (e) => {
		for (; e; e = e.parentElement) {
			const c = parse(getComputedStyle(e).backgroundColor);
			if (c.length < 4 || c[3] > 0) return c;
		}
		return [255, 255, 255];
	};
	const poor = [];
	for (const e of document.querySelectorAll("body *")) {
		const says = [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.nodeValue.trim());
		if (!says || e.closest("[hidden], .skip")) continue;
		const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
		if ((a + 0.05) / (b + 0.05) < 4.5) poor.push(e.textContent.trim() + " " + ((a + 0.05) / (b + 0.05)).toFixed(2));
	}
	return poor;
})()`

func TestBrowser_Reading(t *testing.T) {
	browser := newBrowser(t)
	for name, background := range map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(18, 22, 29)"} {
		browser.with(t, "text stands out in "+name, func(b *tab) {
			for _, path := range []string{"/", "/renders", "/renders?cluster=prod-eu", "/renders/prod-eu/shop/payments", "/login", "/nowhere"} {
				b.visit(path)
				if got := eval[string](b, `getComputedStyle(document.body).backgroundColor`); got != background {
					b.Errorf("the background is %s", got)
				}
				if poor := eval[[]string](b, contrasts); len(poor) > 0 {
					b.Errorf("%s: %q", path, poor)
				}
			}
			if complaints := b.forgive(); !strings.Contains(complaints, "404") {
				b.Errorf("the browser says: %s", complaints) // /nowhere is not there
			}
		}, scheme(name))
	}
	browser.with(t, "a narrow window needs no scrolling to the side", func(b *tab) {
		for _, path := range []string{"/", "/renders", "/renders/prod-eu/shop/payments", "/login"} {
			b.visit(path)
			if wide := eval[int](b, `document.documentElement.scrollWidth`); wide > 320 {
				b.Errorf("%s is %d wide", path, wide)
			}
		}
	}, chromedp.EmulateViewport(320, 640))
	browser.with(t, "what is announced is there", func(b *tab) {
		b.visit("/")
		g := gomega.NewWithT(b.T)
		g.Expect(eval[[]string](b, `[...document.querySelectorAll("[aria-live]")].map((e) => e.ariaLive)`)).To(gomega.Equal([]string{"polite", "polite"}))
	})
}
