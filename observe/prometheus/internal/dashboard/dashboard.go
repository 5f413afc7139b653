// Package dashboard makes observe/prometheus/dashboard.json, which Grafana
// imports, and has what a test needs to read it back. To change the dashboard,
// change panels.go and run
//
//	go test ./prometheus/internal/dashboard -update
package dashboard

import (
	"encoding/json"
	"strings"

	"github.com/juju/errors"
)

// Dashboard is as much of Grafana's model as is used.
type Dashboard struct {
	Title         string     `json:"title"`
	Description   string     `json:"description"`
	Tags          []string   `json:"tags"`
	Editable      bool       `json:"editable"`
	GraphTooltip  int        `json:"graphTooltip"`
	Refresh       string     `json:"refresh"`
	SchemaVersion int        `json:"schemaVersion"`
	Time          TimeRange  `json:"time"`
	Templating    Templating `json:"templating"`
	Panels        []Panel    `json:"panels"`
}

// TimeRange is what is shown at first.
type TimeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Templating has the variables.
type Templating struct {
	List []Variable `json:"list"`
}

// Variable is one that the reader chooses.
type Variable struct {
	Name       string      `json:"name"`
	Label      string      `json:"label"`
	Type       string      `json:"type"`
	Query      string      `json:"query"`
	Datasource *Datasource `json:"datasource,omitempty"`
	Refresh    int         `json:"refresh"`
	IncludeAll bool        `json:"includeAll"`
	Multi      bool        `json:"multi"`
	AllValue   string      `json:"allValue,omitempty"`
	Sort       int         `json:"sort"`
}

// Datasource is where data comes from.
type Datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Panel is a row's title, or what is drawn.
type Panel struct {
	ID          int          `json:"id"`
	Type        string       `json:"type"`
	Title       string       `json:"title"`
	Description string       `json:"description,omitempty"`
	Grid        Grid         `json:"gridPos"`
	Datasource  *Datasource  `json:"datasource,omitempty"`
	Targets     []Target     `json:"targets,omitempty"`
	Field       *FieldConfig `json:"fieldConfig,omitempty"`
	Options     *Options     `json:"options,omitempty"`
	Collapsed   *bool        `json:"collapsed,omitempty"`
}

// Grid is where a panel is, in 24 columns.
type Grid struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

// Target is one expression of a panel.
type Target struct {
	RefID      string      `json:"refId"`
	Expr       string      `json:"expr"`
	Legend     string      `json:"legendFormat"`
	Datasource *Datasource `json:"datasource"`
	Instant    bool        `json:"instant,omitempty"`
}

// FieldConfig says how values are shown.
type FieldConfig struct {
	Defaults  Defaults   `json:"defaults"`
	Overrides []Override `json:"overrides"`
}

// Override is what holds for some series of a panel.
type Override struct {
	Matcher    Matcher    `json:"matcher"`
	Properties []Property `json:"properties"`
}

// Matcher says for which.
type Matcher struct {
	ID      string `json:"id"`
	Options string `json:"options"`
}

// Property is what holds.
type Property struct {
	ID    string `json:"id"`
	Value Color  `json:"value"`
}

// Defaults hold for all series of a panel.
type Defaults struct {
	Unit       string      `json:"unit,omitempty"`
	Min        *float64    `json:"min,omitempty"`
	Decimals   *int        `json:"decimals,omitempty"`
	Color      Color       `json:"color"`
	Custom     *Custom     `json:"custom,omitempty"`
	Thresholds *Thresholds `json:"thresholds,omitempty"`
	Mappings   []Mapping   `json:"mappings,omitempty"`
}

// Color is how series get their colours.
type Color struct {
	Mode  string `json:"mode"`
	Fixed string `json:"fixedColor,omitempty"`
}

// Custom is what time series and timelines are drawn with.
type Custom struct {
	FillOpacity int       `json:"fillOpacity"`
	LineWidth   int       `json:"lineWidth"`
	ShowPoints  string    `json:"showPoints,omitempty"`
	Stacking    *Stacking `json:"stacking,omitempty"`
}

// Stacking adds series up.
type Stacking struct {
	Mode  string `json:"mode"`
	Group string `json:"group"`
}

// Thresholds colour single values.
type Thresholds struct {
	Mode  string `json:"mode"`
	Steps []Step `json:"steps"`
}

// Step is a colour from a value on; nil for all below the next.
type Step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

// Mapping shows a value as a text.
type Mapping struct {
	Type    string            `json:"type"`
	Options map[string]Result `json:"options"`
}

// Result is what a value is shown as.
type Result struct {
	Text  string `json:"text"`
	Index int    `json:"index"`
}

// Options are those of a panel's type.
type Options struct {
	Legend        *Legend        `json:"legend,omitempty"`
	Tooltip       *Tooltip       `json:"tooltip,omitempty"`
	ReduceOptions *ReduceOptions `json:"reduceOptions,omitempty"`
	ColorMode     string         `json:"colorMode,omitempty"`
	GraphMode     string         `json:"graphMode,omitempty"`
	ShowValue     string         `json:"showValue,omitempty"`
	MergeValues   *bool          `json:"mergeValues,omitempty"`
}

// Legend is where series are named.
type Legend struct {
	DisplayMode string   `json:"displayMode"`
	Placement   string   `json:"placement"`
	ShowLegend  bool     `json:"showLegend"`
	Calcs       []string `json:"calcs"`
}

// Tooltip is what is shown under the mouse.
type Tooltip struct {
	Mode string `json:"mode"`
	Sort string `json:"sort"`
}

// ReduceOptions make one value of a series.
type ReduceOptions struct {
	Calcs  []string `json:"calcs"`
	Values bool     `json:"values"`
	Fields string   `json:"fields"`
}

// JSON is what dashboard.json has to be.
func JSON() ([]byte, error) {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(build()); err != nil {
		return nil, errors.Trace(err)
	}
	return []byte(out.String()), nil
}

// Parse reads a dashboard.
func Parse(data []byte) (*Dashboard, error) {
	d := new(Dashboard)
	if err := json.Unmarshal(data, d); err != nil {
		return nil, errors.Annotate(err, "dashboard")
	}
	return d, nil
}
