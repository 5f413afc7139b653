package page

import (
	"bytes"
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"
)

// serveReport answers with all reports: that of Config.Reporter as agent, those
// of the workers as operators, by model, and as containers, by machine.
func (p *Page) serveReport(w http.ResponseWriter, r *http.Request) {
	encode, contentType, err := reportFormat(r)
	if err != nil {
		p.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	w.Header().Set("Vary", "Accept")
	body, err := encode(p.reports(r.Context()))
	if err != nil {
		p.config.Logger.ErrorContext(r.Context(), "report not rendered", "error", err.Error())
		p.refuse(w, r, http.StatusInternalServerError, "the report could not be rendered; the log says why")
		return
	}
	p.answer(w, r, http.StatusOK, contentType, body)
}

// reports asks every reporter at once.
func (p *Page) reports(ctx context.Context) map[string]any {
	var mu sync.Mutex
	var wg sync.WaitGroup
	out := map[string]any{}
	ask := func(what string, g *guard[map[string]any], reporter Reporter, path ...string) {
		wg.Go(func() {
			section := p.askReport(ctx, what, g, reporter)
			mu.Lock()
			defer mu.Unlock()
			at := out
			for _, key := range path[:len(path)-1] {
				if _, ok := at[key]; !ok {
					at[key] = map[string]any{}
				}
				at = at[key].(map[string]any)
			}
			at[path[len(path)-1]] = section
		})
	}
	if p.config.Reporter != nil {
		ask("agent", &p.agent, p.config.Reporter, "agent")
	}
	live, ended, _ := p.workers.list()
	for _, s := range live {
		switch s.kind {
		case kindOperators:
			ask(s.String(), &s.guard, s.reporter, "operators", s.of)
		case kindSetup:
			ask(s.String(), &s.guard, s.reporter, "containers", s.of, "setup")
		case kindContainers:
			ask(s.String(), &s.guard, s.reporter, "containers", s.of, string(s.typed))
		}
	}
	wg.Wait()
	if len(ended) > 0 {
		list := map[string]any{}
		for _, g := range ended {
			list[g.String()] = stamp(g.at)
		}
		out["ended"] = list
	}
	return out
}

// askReport returns one report, or, as its error, why there is none.
func (p *Page) askReport(ctx context.Context, what string, g *guard[map[string]any], reporter Reporter) map[string]any {
	answer, err := g.ask(ctx, p.config.Clock, p.config.ReportTimeout, func() (map[string]any, error) {
		// Here, since what a reporter hands out may panic when it prints.
		report, _ := plain(reporter.Report(), maxDepth).(map[string]any)
		return report, nil
	})
	if err != nil {
		var panicked panicError
		if errors.As(err, &panicked) {
			p.panicked(ctx, what, panicked.value)
		}
		return map[string]any{"error": err.Error()}
	}
	return answer
}

// reportFormat decides how to show the report.
func reportFormat(r *http.Request) (encode func(map[string]any) ([]byte, error), contentType string, err error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, "", errors.New("the query is malformed")
	}
	format := ""
	for key, given := range values {
		if key != "format" || len(given) != 1 {
			return nil, "", errors.New("the only parameter here is format, once")
		}
		format = given[0]
	}
	// A browser shows what is plain text, and stores what is application/yaml.
	const text, yamlType, jsonType = "text/plain; charset=utf-8", "application/yaml", "application/json"
	switch format {
	case "yaml":
		return encodeYAML, text, nil
	case "json":
		return encodeJSON, jsonType, nil
	case "":
	default:
		return nil, "", errors.New("format must be yaml or json")
	}
	accepted := strings.Join(r.Header.Values("Accept"), ",")
	asYAML := max(quality(accepted, yamlType), quality(accepted, "text/plain"))
	switch asJSON := quality(accepted, jsonType); {
	case asJSON > asYAML:
		return encodeJSON, jsonType, nil
	case quality(accepted, yamlType) > 0:
		return encodeYAML, yamlType, nil
	}
	return encodeYAML, text, nil
}

// quality returns how welcome a media type is by name: 0 if it is not named.
func quality(accept, mediaType string) float64 {
	best := 0.0
	for part := range strings.SplitSeq(accept, ",") {
		name, params, err := mime.ParseMediaType(part)
		if err != nil || name != mediaType {
			continue
		}
		q := 1.0
		if given, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(given, 64); err != nil {
				continue
			}
		}
		best = max(best, q)
	}
	return best
}

func encodeYAML(report map[string]any) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(report); err != nil {
		return nil, err
	}
	return out.Bytes(), encoder.Close()
}

func encodeJSON(report map[string]any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(report)
	return out.Bytes(), err
}
