package simulation

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/agentconf"
)

// unsettled returns what is not (yet) as it should be in the end, one line
// each: nil when all is well. Unless it is to be thorough it stops early.
func (w *World) unsettled(thorough bool) []string {
	w.mu.Lock()
	apps := make([]*App, 0, len(w.apps))
	for _, name := range slices.Sorted(maps.Keys(w.apps)) {
		a := *w.apps[name]
		apps = append(apps, &a)
	}
	w.mu.Unlock()

	// The report first: it tells cheaply that there is more to come.
	all := w.wrongReport(apps, thorough)
	if all != nil && !thorough {
		return all
	}
	for _, a := range apps {
		for _, what := range w.wrongWith(a) {
			all = append(all, a.Name+": "+what)
		}
	}
	return all
}

// wrongWith judges one application.
func (w *World) wrongWith(a *App) []string {
	there := slices.Contains(w.manager.Apps(), a.Name)
	switch {
	case a.foreign != nil, a.Format >= 2:
		return nil // its operator is judged by wrongInTheWhole
	case a.Life == "" || a.Life == facade.Dead:
		if there {
			return []string{fmt.Sprintf("life is %q, and there is a part of an operator", a.Life)}
		}
		return nil
	case a.Life == facade.Dying:
		if a.stays && !w.manager.State(a.Name).Exists {
			return []string{"is dying, and its operator is gone"}
		}
		return nil
	case a.NoCharm || !supported(a):
		return w.wrongStatus(a)
	}
	return append(w.wrongOperator(a), w.wrongStatus(a)...)
}

func supported(a *App) bool {
	return a.Info.CharmStorage == nil || a.Info.CharmStorage.Provider == "kubernetes"
}

// wrongOperator judges the operator of a living application that is to have
// one.
func (w *World) wrongOperator(a *App) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	state := w.manager.State(a.Name)
	stored, running := w.manager.Config(a.Name), w.manager.Running(a.Name)
	if state != (operator.State{Exists: true}) || stored == nil || running == nil {
		say("has no operator: %+v", state)
		return wrong
	}
	if !stored.AgentConf.Equal(running.AgentConf) || !stored.OperatorInfo.Equal(running.OperatorInfo) {
		say("its operator was made from other files than those that are stored")
	}
	if running.Version != a.Info.Version || running.ImageDetails.RegistryPath != a.Info.ImageDetails.RegistryPath ||
		!reflect.DeepEqual(running.CharmStorage, a.Info.CharmStorage) || !maps.Equal(running.ResourceTags, a.Info.Tags) {
		say("its operator was made from old information")
	}
	conf := w.parsed(stored.AgentConf)
	if conf == nil {
		say("its stored agent.conf does not parse")
		return wrong
	}
	wrong = append(wrong, w.wrongConf(a, conf)...)
	wrong = append(wrong, w.wrongPassword(a, conf)...)

	if err := w.checkCertificate(a.Name, stored.OperatorInfo); err != nil {
		say("its certificate: %v", err)
	}
	return wrong
}

// checkCertificate tells whether the operator can serve with what is stored.
// What was found good is so until it falls due: this is the greatest part of
// the work, and done again and again.
func (w *World) checkCertificate(app string, content facade.Secret) error {
	now, caCert := w.clock.Now(), w.agent.CACert()
	key := content.Reveal() + caCert
	if now.Before(w.goodUntil[key]) {
		return nil
	}
	info, err := operator.ParseInfo(content)
	if err != nil {
		return err
	}
	validity, err := operator.CheckCertificate(info, app, caCert, now)
	if err == nil {
		w.goodUntil[key] = validity.RenewAt
	}
	return err
}

// parsed is parseConf, remembered.
func (w *World) parsed(content facade.Secret) *agentconf.Config {
	conf, ok := w.confs[content.Reveal()]
	if !ok {
		conf = parseConf(content)
		w.confs[content.Reveal()] = conf
	}
	return conf
}

// wrongConf judges what agent.conf says beside the password.
func (w *World) wrongConf(a *App, conf *agentconf.Config) (wrong []string) {
	is := [...]string{conf.Tag, conf.DataDir, conf.LogDir, conf.UpgradedToVersion, conf.CACert, conf.ControllerUUID, conf.ModelUUID}
	want := [...]string{
		agentconf.TagForApplication(a.Name), w.agent.DataDir(), w.agent.LogDir(), a.Info.Version,
		w.agent.CACert(), w.agent.ControllerUUID(), fakes.ModelUUID,
	}
	for i, name := range [...]string{"tag", "data dir", "log dir", "version", "CA certificate", "controller", "model"} {
		if strings.TrimSpace(is[i]) != strings.TrimSpace(want[i]) {
			wrong = append(wrong, "its agent.conf has another "+name)
		}
	}
	if !slices.Equal(slices.Sorted(slices.Values(conf.APIAddresses)), slices.Sorted(slices.Values(a.Info.APIAddresses))) {
		wrong = append(wrong, "its agent.conf has other addresses")
	}
	if len(conf.Values) > 0 {
		wrong = append(wrong, "its agent.conf still has a mark")
	}
	return wrong
}

// wrongPassword judges whether the operator can log in: with what it was given,
// or with its own password where it has one.
func (w *World) wrongPassword(a *App, stored *agentconf.Config) (wrong []string) {
	live := w.parsed(w.manager.AgentConf(a.Name))
	if live == nil {
		return []string{"its operator's agent.conf does not parse"}
	}
	if !a.own && !live.Password().Equal(stored.Password()) {
		wrong = append(wrong, "its operator has another password than is stored")
	}
	err := w.controller.Login(a.Name, live.Password())
	if err != nil && a.own && a.restarted {
		// It was made anew from what it was first given; an agent tries
		// that, too.
		err = w.controller.Login(a.Name, live.OldPassword)
	}
	if err != nil {
		wrong = append(wrong, "its operator cannot log in")
	}
	return wrong
}

// wrongStatus judges what users of the model are told.
func (w *World) wrongStatus(a *App) []string {
	if !w.has(fakes.StatusReports) || w.shared {
		return nil
	}
	want := facade.StatusProvisioned
	switch {
	case a.NoCharm:
		want = facade.StatusWaiting
	case !supported(a):
		want = facade.StatusError
	}
	if is := w.controller.Status(a.Name).Status; is != want {
		return []string{fmt.Sprintf("its status is %q, not %q", is, want)}
	}
	return nil
}

// wrongReport judges the report of the worker that runs now.
func (w *World) wrongReport(apps []*App, thorough bool) []string {
	s := w.current()
	if s == nil {
		return []string{"no worker runs"}
	}
	want := map[string]int{"queued": 0, "running": 0, "waiting": 0, "stuck": 0, "failed": 0, "settled": 0}
	for _, a := range apps {
		switch {
		case a.Life == "", a.Life == facade.Dead && (a.Format == 1 || a.NoCharm):
			// Not tracked once its operator is gone.
		case a.Life != facade.Alive:
			want["settled"]++
		case a.NoCharm:
			want["waiting"]++
		case a.Format == 1 && !supported(a):
			want["failed"]++
		default:
			want["settled"]++
		}
	}
	report := s.worker.Report()
	totals, _ := report["totals"].(map[string]any)
	var wrong []string
	for _, state := range slices.Sorted(maps.Keys(want)) {
		switch {
		case totals[state] == want[state]:
		case !thorough:
			return []string{"the report says otherwise"}
		default:
			wrong = append(wrong, fmt.Sprintf("the report says %v are %s, not %d: %v", totals[state], state, want[state], report))
		}
	}
	return wrong
}

// current returns the session that runs, nil if there is none or more than one.
func (w *World) current() *Session {
	w.mu.Lock()
	defer w.mu.Unlock()
	var running *Session
	for _, s := range w.sessions {
		select {
		case <-s.ended:
			continue
		default:
		}
		if running != nil {
			return nil
		}
		running = s
	}
	return running
}

// Broken returns which rules were broken at some instant of the story. It is
// for when all workers have ended.
func (w *World) Broken() []string {
	w.mu.Lock()
	all := slices.Clone(w.broken)
	sessions := slices.Clone(w.sessions)
	w.mu.Unlock()

	if err := w.manager.CheckHistory(); err != nil {
		all = append(all, err.Error())
	}
	for _, s := range sessions {
		all = append(all, s.wrongInTheWhole()...)
	}
	for name, a := range w.apps {
		if cfg := w.manager.Config(name); a.foreign != nil && (cfg == nil || !cfg.AgentConf.Equal(a.foreign.AgentConf)) {
			all = append(all, name+": another's operator was changed")
		}
	}
	return append(all, w.leaks(sessions)...)
}

// wrongInTheWhole judges all that a worker did.
func (s *Session) wrongInTheWhole() (wrong []string) {
	say := func(format string, args ...any) {
		wrong = append(wrong, "worker "+s.name+": "+fmt.Sprintf(format, args...))
	}
	writes := map[string]bool{"EnsureOperator": true, "StageOperator": true, "KeepOperator": true, "DeleteOperator": true}
	keys := map[string]bool{}
	for _, c := range s.faults.Calls() {
		keys[c.Key] = true
		if a := s.world.apps[c.Key]; a != nil && a.Format >= 2 && writes[c.Method] {
			say("%s of %s, whose charm has format %d", c.Method, c.Key, a.Format)
		}
		switch {
		case c.End.IsZero(), c.End.After(s.end):
			say("%s outlived it", c)
		case s.ends && c.Start.After(s.killedAt.Add(longestStagger)):
			say("%s began after it was killed", c)
		}
	}
	delete(keys, "")
	for key := range keys {
		if peak := s.faults.Peak(key); peak > 1 {
			say("%d calls for %s were under way at once", peak, key)
		}
	}
	for _, watcher := range s.received {
		select {
		case <-watcher.done:
		default:
			say("a watcher outlived it")
		}
	}
	return wrong
}

// leaks looks for secrets in all that was printed.
func (w *World) leaks(sessions []*Session) (wrong []string) {
	printed := append([]string{w.log.Text()}, w.printed...)
	secrets := maps.Clone(w.secrets)
	add := func(s string) {
		if len(s) >= 8 {
			secrets[s] = true
		}
	}
	for _, s := range sessions {
		for _, c := range s.faults.Calls() {
			for _, arg := range c.Args {
				switch arg := arg.(type) {
				case string: // a path, or a status's message
					printed = append(printed, arg)
				case []facade.ApplicationPassword:
					for _, p := range arg {
						add(p.Password.Reveal())
					}
				case *operator.Config:
					// By hand: to parse every file again would take
					// longer than all the rest.
					add(valueOf(arg.AgentConf.Reveal(), "oldpassword: "))
					add(secondLineOf(arg.OperatorInfo.Reveal(), "BEGIN PRIVATE KEY"))
				}
			}
		}
	}
	text := strings.Join(printed, "\n")
	for secret := range secrets {
		if before, _, found := strings.Cut(text, secret); found {
			// Not the secret itself.
			line := before[strings.LastIndexByte(before, '\n')+1:]
			wrong = append(wrong, "a secret was printed: "+line+"...")
		}
	}
	return wrong
}

// valueOf returns the rest of the line that begins with the key.
func valueOf(text, key string) string {
	_, rest, _ := strings.Cut("\n"+text, "\n"+key)
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

// secondLineOf returns the line after the one that contains the mark.
func secondLineOf(text, mark string) string {
	_, rest, found := strings.Cut(text, mark)
	if !found {
		return ""
	}
	_, rest, _ = strings.Cut(rest, "\n")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

// parseConf returns nil for what does not parse.
func parseConf(content facade.Secret) *agentconf.Config {
	conf, err := agentconf.Parse([]byte(content.Reveal()))
	if err != nil {
		return nil
	}
	return conf
}
