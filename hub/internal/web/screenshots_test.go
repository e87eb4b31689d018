package web_test

import (
	"bytes"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
)

var screenshots = flag.String("screenshots", "", "folder that pictures of the pages are written to; none when empty")

// Pictures of what there is to see, for the documentation and the review of a change.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		return
	}
	if err := os.MkdirAll(*screenshots, 0o755); err != nil {
		t.Fatal(err)
	}
	browser := newBrowser(t)
	for _, name := range []string{"light", "dark"} {
		browser.with(t, name, func(b *tab) {
			for file, path := range map[string]string{
				"clusters": "/", "renders": "/renders", "render": "/renders/prod-eu/shop/payments", "cluster": "/renders?cluster=prod-eu",
			} {
				b.visit(path)
				b.keep(file + "-" + name + ".png")
			}
			b.run(chromedp.EmulateViewport(390, 800))
			b.visit("/renders")
			b.keep("narrow-" + name + ".png")
			b.run(chromedp.EmulateViewport(1200, 700), chromedp.Click(css(".who button")), chromedp.WaitVisible(css("#token")))
			b.keep("login-" + name + ".png")
		}, scheme(name), chromedp.EmulateViewport(1280, 720))
	}
}

// keep writes a picture of the whole page.
func (b *tab) keep(file string) {
	b.Helper()
	shot, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		b.Fatal(err)
	}
	var small bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, fewColours(picture)); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*screenshots, file), small.Bytes(), 0o644); err != nil {
		b.Fatal(err)
	}
}

// fewColours draws a picture in its 64 most frequent colours: a page has few, and the
// rest are the edges of letters.
func fewColours(picture image.Image) *image.Paletted {
	counts, area := map[color.Color]int{}, picture.Bounds()
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			counts[picture.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int { return counts[b] - counts[a] })
	drawn := image.NewPaletted(area, colours[:min(len(colours), 64)])
	draw.Draw(drawn, area, picture, area.Min, draw.Src)
	return drawn
}
