package dashshot

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/juju/errors"
)

// Client asks a Prometheus server.
type Client struct {
	// URL is the server's.
	URL string
}

// Series is one series of an answer.
type Series struct {
	Labels map[string]string
	Points []Point
}

// Point is one value of a series.
type Point struct {
	Time  time.Time
	Value float64
}

// get asks for a path, and unpacks the data of the answer.
func (c Client) get(ctx context.Context, path string, query url.Values, data any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+path+"?"+query.Encode(), nil)
	if err != nil {
		return errors.Trace(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return errors.Trace(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return errors.Trace(err)
	}
	if data == nil {
		if response.StatusCode != http.StatusOK {
			return errors.Errorf("%s: %s", path, response.Status)
		}
		return nil
	}
	var answer struct {
		Status, Error string
		Warnings      []string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return errors.Annotatef(err, "%s: %s", path, response.Status)
	}
	if answer.Status != "success" || len(answer.Warnings) > 0 {
		return errors.Errorf("%s: %s %q", path, answer.Error, answer.Warnings)
	}
	return errors.Trace(json.Unmarshal(answer.Data, data))
}

// Ready returns nil when the server answers queries.
func (c Client) Ready(ctx context.Context) error { return c.get(ctx, "/-/ready", nil, nil) }

// Range returns what an expression was from time to time. Points that are no
// number are left out.
func (c Client) Range(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]Series, error) {
	var data struct {
		Result []struct {
			Metric map[string]string
			Values [][2]any
		}
	}
	err := c.get(ctx, "/api/v1/query_range", url.Values{
		"query": {expr}, "start": {stamp(from)}, "end": {stamp(to)}, "step": {fmt.Sprint(step.Seconds())},
	}, &data)
	if err != nil {
		return nil, errors.Annotate(err, expr)
	}
	var out []Series
	for _, result := range data.Result {
		series := Series{Labels: result.Metric}
		for _, pair := range result.Values {
			at, _ := pair[0].(float64)
			text, _ := pair[1].(string)
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, errors.Annotate(err, expr)
			}
			if !math.IsNaN(value) && !math.IsInf(value, 0) {
				series.Points = append(series.Points, Point{Time: time.UnixMilli(int64(at * 1000)), Value: value})
			}
		}
		if len(series.Points) > 0 {
			out = append(out, series)
		}
	}
	return out, nil
}

// Rules returns why each rule that cannot be evaluated cannot, and how many
// there are in all.
func (c Client) Rules(ctx context.Context) (broken map[string]string, total int, err error) {
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	if err := c.get(ctx, "/api/v1/rules", nil, &data); err != nil {
		return nil, 0, err
	}
	broken = make(map[string]string)
	for _, group := range data.Groups {
		for _, rule := range group.Rules {
			total++
			if rule.Health != "ok" {
				broken[rule.Name] = strings.TrimSpace(rule.Health + " " + rule.LastError)
			}
		}
	}
	return broken, total, nil
}

func stamp(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }
