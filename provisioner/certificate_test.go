package provisioner_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sutler-dev/sutler/fakes"
)

const day = 24 * time.Hour

// O22: a 90-day certificate is renewed at two thirds of its life, at that
// moment, without any event.
func TestCertificateIsRenewedWhenItFallsDue(t *testing.T) {
	story(t, func(w *world) {
		w.config.ResyncInterval = 10000 * day
		w.controller.SetCertificateLife(90 * day)
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.after(365 * day)
		w.provisioned("mysql")
		times := w.times("IssueOperatorCertificate", "mysql")
		if len(times) != 7 {
			t.Fatalf("issued at %v, want 7 times in a year", times)
		}
		for i, at := range times {
			if off := at - time.Duration(i)*60*day; off < -day || off > day {
				t.Errorf("certificate %d was issued after %v, want %d days", i, at, i*60)
			}
		}
		if n := w.controller.PasswordChanges("mysql"); n != 1 {
			t.Errorf("the password changed %d times, want 1", n)
		}
	})
}

func TestCertificateThatExpiredMeanwhileIsReplacedAtStart(t *testing.T) {
	story(t, func(w *world) {
		w.controller.SetCertificateLife(90 * day)
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.stop()
		w.after(100 * day)
		w.start()
		w.provisioned("mysql")
	})
}

func TestCertificateOfAnotherCAIsReplaced(t *testing.T) {
	story(t, func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.controller.RotateCA()
		w.agent.SetCACert(w.controller.CACert())
		w.after(time.Hour)
		w.provisioned("mysql")
		if got := w.conf("mysql").CACert; got != w.controller.CACert() {
			t.Error("agent.conf names the old CA")
		}
	})
}

// O23: what does not fit is not accepted, and not asked for without a pause.
func TestCertificateThatDoesNotFitIsRefusedAndAskedForWithPauses(t *testing.T) {
	for _, flaw := range fakes.Flaws() {
		t.Run(string(flaw), func(t *testing.T) {
			story(t, func(w *world) {
				w.controller.SetFlaw(flaw, "mysql")
				w.controller.AddApplication("mysql", fakes.App{})
				w.controller.AddApplication("wordpress", fakes.App{})
				w.start()
				w.provisioned("wordpress")
				w.reported("mysql", "failed", "certificate")
				w.after(8 * time.Hour)
				if w.exists("mysql") {
					t.Error("an operator was made without a certificate that fits")
				}
				times := w.times("IssueOperatorCertificate", "mysql")
				if n := len(times); n < 8 || n > 15 {
					t.Errorf("asked %d times in 8 h: %v", n, times)
				}
				for i := 1; i < len(times); i++ {
					if pause := times[i] - times[i-1]; pause < time.Minute || pause > time.Hour+time.Minute {
						t.Errorf("paused for %v before request %d", pause, i)
					}
				}
				w.controller.SetFlaw("", "mysql")
				w.after(2 * time.Hour)
				w.provisioned("mysql")
			})
		})
	}
}

// While the old certificate is still good, only its renewal fails.
func TestCertificateThatCannotBeRenewedIsUsedWhileItIsGood(t *testing.T) {
	story(t, func(w *world) {
		w.config.ResyncInterval = day
		w.controller.SetCertificateLife(90 * day)
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.controller.SetFlaw(fakes.WrongKey)
		w.after(70 * day)
		w.reported("mysql", "failed", "certificate")
		w.provisioned("mysql") // it still fits

		info := fakes.Info()
		info.APIAddresses = []string{"10.0.0.7:17070"}
		w.controller.SetInfo("mysql", info)
		synctest.Wait()
		if got := fmt.Sprint(w.conf("mysql").APIAddresses); got != "[10.0.0.7:17070]" {
			t.Errorf("the rest was not kept up: addresses are %v", got)
		}
		w.controller.SetFlaw("")
		w.after(2 * time.Hour)
		w.provisioned("mysql")
		if w.entry("mysql") != nil {
			t.Errorf("still reported: %v", w.entry("mysql"))
		}
	})
}
