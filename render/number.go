package render

import (
	"math"
	"strconv"
	"strings"
)

// formatFloat is the text of a finite float: the shortest digits that round-trip,
// plain for 1e-5 <= |f| < 1e16 and always recognisable as a float.
func formatFloat(f float64) string {
	text := strconv.FormatFloat(f, 'e', -1, 64)
	mantissa, exponent, _ := strings.Cut(text, "e")
	exp, _ := strconv.Atoi(exponent)
	if f == 0 || -5 <= exp && exp <= 15 {
		return plainFloat(f)
	}
	return mantissa + "e" + strconv.Itoa(exp)
}

// plainFloat is a finite float without exponent.
func plainFloat(f float64) string {
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if strings.Contains(text, ".") {
		return text
	}
	return text + ".0"
}

func finite(f float64) bool { return !math.IsInf(f, 0) && !math.IsNaN(f) }

// decimal tells whether text is a decimal integer without sign or leading zero.
func decimal(text string) bool {
	if text == "" || text[0] == '0' && len(text) > 1 {
		return false
	}
	return allDigits(text)
}

func allDigits(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !isDigit(r) })
}

// longestFloat is an upper bound for the bytes formatFloat writes.
const longestFloat = 32

// widen gives an unquoted INI or properties value its type: bool, integer or
// float where writing that back gives the very same text, otherwise string.
func widen(text string) any {
	switch {
	case text == "true":
		return true
	case text == "false":
		return false
	case text == "" || text[0] != '-' && !isDigit(rune(text[0])):
		return text
	case decimal(strings.TrimPrefix(text, "-")) && text != "-0":
		return integer(text)
	case len(text) > longestFloat:
		return text
	}
	f, err := strconv.ParseFloat(text, 64)
	if err == nil && finite(f) && formatFloat(f) == text {
		return f
	}
	return text
}

// scalarText is the text of a bool, an integer or a finite float, the empty text
// of null, or the string itself. It is what entries, INI and properties write.
func scalarText(value any) string {
	switch v := value.(type) {
	case bool:
		return strconv.FormatBool(v)
	case integer:
		return string(v)
	case float64:
		return formatFloat(v)
	case string:
		return v
	default:
		return ""
	}
}
