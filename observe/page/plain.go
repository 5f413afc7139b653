package page

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"
)

// maxDepth is how deep a report may go, since one may hold itself.
const maxDepth = 32

// plain makes a value of maps, lists, texts, numbers and booleans, which is what
// can be shown in any format. What says how it prints is shown like that, so that
// what hides its content does so here; of anything else only the type is.
func plain(v any, depth int) any {
	if depth == 0 {
		return "..."
	}
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return strings.ToValidUTF8(v, "\uFFFD")
	case time.Time:
		return stamp(v)
	case error, fmt.Stringer, fmt.Formatter, encoding.TextMarshaler:
		return strings.ToValidUTF8(fmt.Sprint(v), "\uFFFD")
	}
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.String:
		return strings.ToValidUTF8(r.String(), "\uFFFD")
	case reflect.Bool:
		return r.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return r.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return r.Uint()
	case reflect.Float32, reflect.Float64:
		f := r.Float()
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Sprint(f) // JSON has no such number
		}
		return f
	case reflect.Map:
		out := make(map[string]any, r.Len())
		for _, key := range r.MapKeys() {
			name := fmt.Sprint(plain(key.Interface(), depth-1))
			out[name] = plain(r.MapIndex(key).Interface(), depth-1)
		}
		return out
	case reflect.Slice, reflect.Array:
		if r.Type().Elem().Kind() == reflect.Uint8 {
			return fmt.Sprintf("%d bytes", r.Len()) // most likely a key
		}
		out := make([]any, r.Len())
		for i := range out {
			out[i] = plain(r.Index(i).Interface(), depth-1)
		}
		return out
	}
	return fmt.Sprintf("(%T)", v)
}
